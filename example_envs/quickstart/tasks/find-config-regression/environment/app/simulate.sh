#!/bin/bash
# Usage: simulate.sh CONF
# Runs an hour of the queue: every worker takes one long job after the other and says every heartbeat_interval that
# it is still at work, which renews its claim for visibility_timeout. A job whose claim has run out is delivered again.
awk '
    function seconds(text) {
        if (text ~ /^[0-9]+ms$/) return text / 1000
        if (text ~ /^[0-9]+s$/) return text + 0
        if (text ~ /^[0-9]+m$/) return text * 60
        if (text ~ /^[0-9]+h$/) return text * 3600
        print "not a duration: " text
        exit failed = 2
    }
    /^[a-z_]+ *= */ {
        split($0, pair, / *= */)
        value[pair[1]] = pair[2]
    }
    END {
        if (failed) exit failed
        claim = seconds(value["visibility_timeout"])
        beat = seconds(value["heartbeat_interval"])
        limit = seconds(value["job_time_limit"])
        if (claim <= 0 || beat <= 0 || limit <= 0 || value["workers"] < 1) {
            print "the queue does not start"
            exit 2
        }
        for (begin = 0; begin < 3600; begin += limit) {
            until = claim
            for (now = beat; now < limit && now <= until; now += beat) until = now + claim
            if (until < limit) twice += value["workers"]
        }
        if (twice) {
            print twice " jobs delivered twice"
            exit 1
        }
        print "no job delivered twice"
    }
' "$1"
