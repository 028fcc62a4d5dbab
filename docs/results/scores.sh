#!/bin/sh
# Everything behind docs/results/scores.md: sh docs/results/scores.sh FCC_ADBUY, with the folder of the advertising
# invoices. Draws corpora, trains a model and an out-model on each, audits them, and prints the tables.
# Killed at any time, the same command goes on. CPU seconds are those of the audit's last call.
set -e
pfl() { .venv/bin/pfl-audit "$@"; }
work=${WORK:-build/scores}
start=fixtures/vt5-pretrained
mkdir -p "$work"

draw() { # folder, seed, companies of each class in RED, options
    name=$work/$1 seed=$2 red=$3
    shift 3
    [ -f "$name/recipe.json" ] || pfl data make --out "$name" --members 70 --non-members "$red" --red-providers "$red" \
        --documents 2 --red-documents 2 --seed "$seed" "$@"
}
german() { # folder, seed, companies outside the training set
    [ -f "$work/$1/corpus.jsonl" ] || .venv/bin/python docs/results/other_language.py "$work/$1" "$2" 70 "$3"
}
train() { # model, corpus, steps, questions of a step, learning rate
    [ -f "$work/$1/model.safetensors" ] || pfl train --data "$work/$2" --from $start --out "$work/$1" --steps "$3" \
        --batch-size "$4" --learning-rate "$5"
}
mia() { # name, model, control, corpus; a leak is no failure here
    [ -f "$work/$1-audit/results.json" ] && return
    (
        pfl mia --model "$2" --pretrained $start --control "$3" --red "$4" --store "$work/$1.sqlite" \
            --out "$work/$1-audit" --fail-on never || [ $? -eq 3 ]
        times > "$work/$1.cpu" # the second line is of the programs called
    )
}

[ -d "$work/fcc" ] || pfl data import fcc-adbuy "${1:?folder of the advertising invoices}" --out "$work/fcc"
draw freight 61 70 --wordings freight
draw freight-others 62 0 --wordings freight
draw utility 63 70 --wordings utility --asked payables
draw utility-others 64 0 --wordings utility --asked payables
german german 65 70
german german-others 66 0

drawn() { # folder, steps, questions of a step
    train "$1-model" "$1" "$2" "$3" 1e-3
    train "$1-out" "$1-others" "$2" "$3" 1e-3
    mia "$1" "$work/$1-model" "$work/$1-out" "$work/$1"
}
drawn freight 160 16
drawn german 220 8
drawn utility 220 8
mia demo fixtures/vt5-finetuned fixtures/vt5-out fixtures/red
train fcc-model fcc 300 16 5e-4
train fcc-out fcc/out-model 300 16 5e-4
mia fcc "$work/fcc-model" "$work/fcc-out" "$work/fcc"
.venv/bin/python docs/results/scores_table.py "$work"
