#!/bin/sh
# Trains a Donut that prints fields and a LayoutLMv3 that tags words on drawn documents, each with a control that is
# trained on other documents of the same companies, audits membership of documents, and prints the tables of families.md.
# Killed at any time, the same command goes on. MODELS, DONUT_STEPS and TAGGER_STEPS make it smaller.
set -e
export OMP_NUM_THREADS=1
pfl() { .venv/bin/pfl-audit "$@"; }
seed=${SEED:-71}
work=${WORK:-build/families}

mkdir -p "$work"
[ -d "$work/drawn" ] || pfl data make --out "$work/drawn" --members 100 --non-members 4 --red-providers 2 --clients 2 \
    --documents 8 --questions 8 --seed "$seed"
[ -f "$work/other/corpus.jsonl" ] || .venv/bin/python docs/results/divide_documents.py "$work/drawn" "$work" "$seed"
[ -f "$work/start/layoutlmv3/model.safetensors" ] ||
    .venv/bin/python docs/results/families_start.py "$work/trained" "$work/start"
for model in ${MODELS:-layoutlmv3 donut}; do
    case $model in
    donut) how="--steps ${DONUT_STEPS:-600} --batch-size 8 --learning-rate 1e-3" ;;
    *) how="--steps ${TAGGER_STEPS:-1500} --batch-size 8 --learning-rate 1e-3" ;;
    esac
    for side in trained other; do
        [ -f "$work/$model-$side/model.safetensors" ] || pfl train --data "$work/$side" --from "$work/start/$model" \
            --out "$work/$model-$side" $how --validate-every 5000 --seed "$seed"
    done
    [ -f "$work/audit-$model/results.json" ] || pfl audit --model "$work/$model-trained" \
        --control "$work/$model-other" --members "$work/trained" --non-members "$work/untrained" --unit document \
        --classes-random units --out "$work/audit-$model" --store "$work/store.sqlite" --set 'membership.s=[0]' --seed "$seed" \
        --fail-on never || [ $? -eq 3 ] # 3: a check was not possible
    .venv/bin/python docs/results/audit_table.py "$work/audit-$model"
done
