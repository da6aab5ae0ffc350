#!/bin/bash
set -euo pipefail
export LC_ALL=C
iconv -f ISO-8859-1 -t UTF-8 /app/inventory.csv | perl -ne '
    s/\r?\n$//;
    next if /^#/ || /^\s*$/ || /^Artikel;/;
    my ($sku, $name, $quantity, $price) = map { s/^\s+|\s+$//gr } split /;/;
    $name =~ s/^"(.*)"$/$1/;
    $quantity =~ s/\.//g;
    $price =~ s/[^\d.,]//g; # the currency
    $price =~ s/\.//g;
    $price =~ s/,/./;
    $sku = uc $sku;
    $total{$sku} += $quantity;
    $last{$sku} = [$name, $price];
    END {
        print "sku,name,quantity,price\n";
        for my $sku (sort keys %total) {
            my ($name, $price) = @{$last{$sku}};
            $name = "\"$name\"" if $name =~ /,/;
            printf "%s,%s,%d,%.2f\n", $sku, $name, $total{$sku}, $price;
        }
    }
' > /app/clean.csv
