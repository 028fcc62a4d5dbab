#!/bin/sh
# Trains a Donut that prints fields and a LayoutLMv3 that tags words on a drawn corpus, each with a control that is
# trained on other companies, audits them, and prints the tables of families.md. Killed at any time, the same command
# goes on. MODELS, DONUT_STEPS and TAGGER_STEPS make it smaller.
set -e
pfl() { .venv/bin/pfl-audit "$@"; }
work=${WORK:-build/families}
size="--members 32 --non-members 32 --red-providers 30 --documents 4 --red-documents 2.5 --clients 2 --questions 8"

mkdir -p "$work"
[ -d "$work/data" ] || pfl data make --out "$work/data" $size --seed 71
[ -d "$work/other" ] || pfl data make --out "$work/other" $size --seed 72
[ -f "$work/start/layoutlmv3/model.safetensors" ] || .venv/bin/python docs/results/families_start.py "$work/data" "$work/start"
for model in ${MODELS:-layoutlmv3 donut}; do
    case $model in
    donut) how="--steps ${DONUT_STEPS:-200} --batch-size 16 --learning-rate 2e-3 --validate-every 200" ;;
    *) how="--steps ${TAGGER_STEPS:-300} --batch-size 8 --learning-rate 1e-3 --validate-every 150" ;;
    esac
    for data in data other; do
        pfl train --data "$work/$data" --from "$work/start/$model" --out "$work/$model-$data" $how
    done
    # 1: a leak was found, 3: a check was not possible
    pfl audit --model "$work/$model-data" --control "$work/$model-other" --red "$work/data" \
        --out "$work/audit-$model" --store "$work/store.sqlite" || [ $? -ne 2 ]
    .venv/bin/python docs/results/audit_table.py "$work/audit-$model"
done
