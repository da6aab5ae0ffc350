#!/bin/bash
for _ in $(seq 50); do
  if exec 3<>/dev/tcp/web/8000; then
    printf 'GET /answer HTTP/1.0\r\n\r\n' >&3
    tail -n 1 <&3 > answer
    exit
  fi
  sleep 0.1
done 2>/dev/null
