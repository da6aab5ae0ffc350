#!/bin/bash
echo 42 > answer
sleep 60
