#!/bin/bash
sort -n /app/readings.txt | tail -n 1 > /app/highest.txt
