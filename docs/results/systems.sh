#!/bin/sh
# Trains FL-PROVIDER-DP, FL-GROUP-DP and DP-CLGECL at equal valid epsilon and prints their table. Killed at any time, the
# same command goes on. SEEDS, EPSILONS and ROUNDS make it smaller.
set -e
pfl() { .venv/bin/pfl-audit "$@"; }
work=${WORK:-build/systems}
start=fixtures/vt5-pretrained
data=${DATA:-build/fixtures/private} # make fixtures draws it: 10 clients with 12 providers each
shared="--mode fl-dp --lora 4 --rounds ${ROUNDS:-14} --batch-size 8 --local-steps 2 --learning-rate 1e-3 --clip 0.03 --validate-every 7"
drawn="--sampling clients --client-rate 0.2 --provider-rate 0.3333333333333333 --public-providers 120"
groups="--sampling fixed-size --clients-per-round 2 --providers-per-round 4 --minimum-providers 12"

model() {
    name=$1
    shift
    [ -f "$work/$name/model.safetensors" ] || pfl train --data "$data" --from $start --out "$work/$name" \
        --ledger "$work/$name.ledger.json" --half $shared "$@"
}

mkdir -p "$work"
for seed in ${SEEDS:-0 1 2}; do
    for epsilon in ${EPSILONS:-8 4 1}; do
        model provider-eps$epsilon-$seed $drawn --epsilon $epsilon --seed $seed
        model group-eps$epsilon-$seed $groups --epsilon $epsilon --seed $seed
        model clgecl-eps$epsilon-$seed $groups --client-memory clgecl --epsilon $epsilon --seed $seed
        model clgecl_zero-eps$epsilon-$seed $groups --client-memory clgecl-zero --epsilon $epsilon --seed $seed
    done
done
.venv/bin/python docs/results/systems_table.py "$work"
