#!/bin/sh
# Trains private models over 4,000 companies, and prints what they learn. Killed at any time, the same command goes on.
# EPSILONS and SEEDS choose the runs: a private run takes 20 to 30 minutes on two cores.
set -e
pfl() { .venv/bin/pfl-audit "$@"; }
work=build/private-learning
start=fixtures/vt5-pretrained
adapters="--lora 4 --lora-parts up --seed"
private="--optimizer sgd --learning-rate 0.9 --batch-size 1 --local-steps 1 --clip 0.05 --strategy fedadam
    --provider-rate 0.2 --public-providers 4000 --validate-every 10 --half"

model() { # name, corpus, options
    name=$1 corpus=$2
    shift 2
    [ -f "$work/$name/model.safetensors" ] || pfl train --data "$work/$corpus" --from $start --out "$work/$name" "$@"
}

# Settings are searched on the pages of another industry, which count as public.
sh docs/results/private_corpora.sh utility 4000 41
model search-0.4 utility --mode central-dp $private --server-rate 0.4 --sigma 0.9 --rounds 10 $adapters 0
.venv/bin/python docs/results/private_learning_table.py $work/utility $start $work/search-0.4

sh docs/results/private_corpora.sh freight 4000 42
models=
for seed in ${SEEDS:-0 1 2}; do
    for epsilon in ${EPSILONS:-8 4 1}; do
        model freight-$epsilon-$seed freight --mode central-dp $private --server-rate 0.4 --epsilon $epsilon \
            --rounds 20 $adapters $seed
        models="$models $work/freight-$epsilon-$seed"
    done
    model freight-none-$seed freight --mode central --steps 600 --batch-size 24 --learning-rate 3e-3 --optimizer adam \
        --validate-every 300 --half $adapters $seed
    models="$models $work/freight-none-$seed"
done
.venv/bin/python docs/results/private_learning_table.py $work/freight $start $models
