#!/bin/bash
set -euo pipefail
cat > /app/report.sh <<'SCRIPT'
#!/bin/bash
# Usage: report.sh LOGFILE
set -euo pipefail
export LC_ALL=C # order by bytes

awk -F '"' '
    NF < 3 { next } # a blank line
    {
        split($2, request, " ")
        split($3, answer, " ")
        path = request[2]
        sub(/\?.*/, "", path)
        requests++
        if (answer[1] >= 500) errors++
        if (answer[2] != "-") bytes += answer[2]
        count[path]++
    }
    END {
        busiest = "-"
        most = 0
        for (path in count)
            if (count[path] > most || (count[path] == most && path < busiest)) {
                busiest = path
                most = count[path]
            }
        # %d ends at 2 GiB in mawk
        printf "requests: %d\nerrors: %d\nbytes: %.0f\nbusiest: %s %d\n", requests, errors, bytes, busiest, most
    }
' < "$1"
SCRIPT
