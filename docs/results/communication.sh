#!/bin/sh
# Trains the systems of the competition's first track on a drawn federation, and prints ANLS against bytes. Killed at any
# time, the same command goes on.
set -e
pfl() { .venv/bin/pfl-audit "$@"; }
work=${WORK:-build/communication}
start=fixtures/vt5-pretrained
seed=${SEED:-0}

[ -f "$work/data/recipe.json" ] || pfl data make --out "$work/data" --members 300 --non-members 100 --red-providers 100 \
    --clients 10 --documents 2 --red-documents 2 --questions 5 --wordings freight --asked payables --seed 43

model() {
    name=$1
    shift
    [ -f "$work/$name-$seed/model.safetensors" ] || pfl train --mode fl --data "$work/data" --from $start \
        --out "$work/$name-$seed" --batch-size 16 --validate-every 100 --seed "$seed" "$@"
}

adapters="--lora 6 --learning-rate 3e-3"
tuned="--rounds 2 --clients-per-round 1 --local-epochs 16"
model baseline --rounds 7 --clients-per-round 2 --learning-rate 1e-3
model lora $adapters --rounds 7 --clients-per-round 2
model tuned $adapters $tuned
model quantized $adapters $tuned --codec nf4
model fedshampoo --rounds 3 --clients-per-round 2 --local-epochs 6 --optimizer shampoo --freeze-embeddings --learning-rate 2e-2
.venv/bin/python docs/results/communication_table.py "$work/data" $start "$work"/baseline-$seed "$work"/lora-$seed \
    "$work"/tuned-$seed "$work"/quantized-$seed "$work"/fedshampoo-$seed
.venv/bin/python docs/results/quantization_stages.py "$work/data" $start "$work/stages" "$seed" # Table A5
