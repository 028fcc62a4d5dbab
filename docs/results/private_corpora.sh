#!/bin/sh
# Draws the corpora of private_learning.sh, private_learning_curve.sh and systems.sh: private_corpora.sh NAME COMPANIES SEED.
# The name is a set of wordings (freight, utility), and a number of companies where several corpora have it: freight-500.
set -e
out=build/private-learning/$1
red=200
[ "$2" -ge $red ] || red=$2
[ -f "$out/recipe.json" ] || .venv/bin/pfl-audit data make --out "$out" --members "$2" --non-members 400 --red-providers $red \
    --documents 1.5 --red-documents 2 --questions 5 --wordings "${1%%-*}" --asked payables --seed "$3"
