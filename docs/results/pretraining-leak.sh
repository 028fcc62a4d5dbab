#!/bin/sh
# Trains and audits everything behind docs/results/pretraining-leak.md. Killed at any time, the same command goes on.
set -e
pfl() { .venv/bin/pfl-audit "$@"; }
work=${1:-build/pretraining-leak}
start=fixtures/vt5-pretrained
data=$work/data

[ -f "$data/recipe.json" ] || pfl data make --out "$data" --members 30 --non-members 30 --red-providers 30 \
    --clients 3 --documents 2 --red-documents 2 --questions 4 --wordings broadcast --seed 21

model() {
    name=$1
    shift
    [ -f "$work/$name/model.safetensors" ] || pfl train --data "$data" --from $start --out "$work/$name" \
        --steps 360 --batch-size 4 --learning-rate 1e-3 --validate-every 360 --half "$@"
}

audit() {
    [ -f "$work/audits/$1/results.json" ] || pfl audit --model "$work/$1" --pretrained $start --red "$data" \
        --check membership --check memorization.generalisation --check memorization.provider_name \
        --store "$work/responses.sqlite" --out "$work/audits/$1" --fail-on never || [ $? -eq 3 ]
}

model finetuned
model pretrained --pretrain tm,lm,tlm --pretrain-steps 90
audit finetuned
audit pretrained
pfl compare "$work/audits/finetuned" "$work/audits/pretrained" --out "$work/comparison.html"
