#!/bin/sh
# Private models by the number of companies. Killed at any time, the same command goes on. SEEDS, COMPANIES (the largest last: all
# models are asked about pages of its corpus), EPSILONS and MODES choose the runs; fl-dp is the federation of 10 clients that all take
# part in every round, each with its share of the noise.
set -e
work=build/private-learning
start=fixtures/vt5-pretrained
models=

model() { # name, corpus, companies, options
    out=$work/$1 corpus=$work/$2 count=$3
    shift 3
    models="$models $out"
    [ -f "$out/model.safetensors" ] || .venv/bin/pfl-audit train --data "$corpus" --from $start --out "$out" \
        --ledger "$out.ledger.json" --optimizer sgd --learning-rate 0.9 --batch-size 1 --local-steps 1 --clip 0.05 \
        --strategy fedadam --server-rate 0.4 --provider-rate 0.2 --public-providers "$count" --rounds 20 \
        --lora 4 --lora-parts up --validate-every 10 --half "$@"
}

for count in ${COMPANIES:-120 500 1000 4000}; do
    sh docs/results/private_corpora.sh freight-$count "$count" $((4200 + count))
    for epsilon in ${EPSILONS:-8}; do
        for seed in ${SEEDS:-0 1 2}; do
            for mode in ${MODES:-central-dp fl-dp}; do
                model $mode-$count-$epsilon-$seed freight-$count "$count" --mode $mode --epsilon "$epsilon" --seed "$seed"
            done
        done
    done
done
.venv/bin/python docs/results/private_learning_table.py "$work/freight-$count" $start $models
