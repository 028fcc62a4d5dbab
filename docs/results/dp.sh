#!/bin/sh
# Trains and audits everything behind docs/results/dp.md. Killed at any time, the same command goes on.
set -e
pfl() { .venv/bin/pfl-audit "$@"; }
work=build/dp
start=fixtures/vt5-pretrained
data=build/fixtures/private # make fixtures draws it
private="--lora 4 --rounds 10 --batch-size 8 --local-steps 2 --learning-rate 1e-3 --clip 0.03 --validate-every 10 --public-providers 120"
plain="--batch-size 32 --learning-rate 3e-3 --optimizer adafactor"

model() {
    name=$1
    shift
    [ -f "$work/$name/model.safetensors" ] || pfl train --data $data --from $start --out "$work/$name" --half "$@"
}

audit() {
    [ -f "$work/audits/$1/results.json" ] || pfl audit --model "$2" --pretrained $start --red fixtures/red \
        --check membership --check memorization.generalisation --check memorization.provider_name \
        --store $work/responses.sqlite --out "$work/audits/$1" --fail-on never || [ $? -eq 3 ]
}

for seed in 0 1 2; do
    for epsilon in 8 1 4; do
        model central-eps$epsilon-$seed --mode central-dp --provider-rate 0.2 --epsilon $epsilon \
            $private --seed $seed
        model fl-eps$epsilon-$seed --mode fl-dp --sampling clients --client-rate 0.2 --epsilon $epsilon \
            $private --seed $seed
    done
    model fl-none-$seed --mode fl --rounds 10 --clients-per-round 2 $plain --validate-every 5 --seed $seed
    model central-none-$seed --mode central --steps 500 $plain --validate-every 250 --seed $seed
    for epsilon in 8 4 1 none; do
        for mode in central fl; do
            audit $mode-eps$epsilon-$seed "$work/$mode-$([ $epsilon = none ] || echo eps)$epsilon-$seed"
        done
    done
done
.venv/bin/python docs/results/dp_table.py $work/audits
