@echo off
findstr /x 21.75 C:\app\highest.txt && (>C:\logs\verifier\reward.txt echo 1) || (>C:\logs\verifier\reward.txt echo 0)
