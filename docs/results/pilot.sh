#!/bin/sh
# Trains the federations behind docs/results/pilot.md and prints the pilot's Tables 3 to 7. Killed at any time, the same
# command goes on. SEEDS chooses the runs: a seed has 26 of them. DEVICE (cuda) is where they are trained and asked.
set -e
pfl() { .venv/bin/pfl-audit "$@"; }
work=${WORK:-build/pilot}
start=fixtures/vt5-pretrained

# Documents in the proportions of 1, 4 and 5 clients of 10, as in the pilot's Table 2; Table 1 has the questions of each.
# The models are asked about pages of other companies.
draw() { # folder, kind, providers, questions, seed
    [ -f "$work/$1/recipe.json" ] || pfl data make --out "$work/$1" --kind "$2" --members "$3" --non-members "$3" \
        --red-providers "$3" --clients 1 --documents 1 --red-documents 1 --questions "$4" --wordings freight \
        --asked payables --seed "$5"
}
draw tables tables 8 10 51
draw invoices invoices 32 4 52
draw statements statements 40 7 53
draw asked/tables tables 60 5 54
draw asked/invoices invoices 60 5 55
draw asked/statements statements 60 5 56
for clients in 3 10; do
    [ -d "$work/$clients" ] || pfl data partition "$work/tables" "$work/invoices" "$work/statements" --clients $clients \
        --out "$work/$clients"
done

model() { # name, clients, fraction, options
    name=$work/$1-$seed clients=$2 fraction=$3
    shift 3
    [ -f "$name/model.safetensors" ] || pfl train --mode fl --data "$work/$clients" --from $start --out "$name" \
        --client-fraction "$fraction" --rounds 10 --batch-size 16 --optimizer adamw --learning-rate 5e-4 \
        --weighting data --validate-every 100 --seed "$seed" --half \
        --device "${DEVICE:-cpu}" "$@"
}

for seed in ${SEEDS:-0 1 2}; do
    for clients in 3 10; do # Tables 3 and 6
        for fraction in 0.35 0.7 1; do
            model fedavg-$clients-$fraction $clients $fraction
        done
        for fraction in 0.35 0.7; do
            model avgm-$clients-$fraction $clients $fraction --pretrain tm,lm,tlm --pretrain-strategy fedavgm
            model adam-$clients-$fraction $clients $fraction --pretrain tm,lm,tlm --pretrain-strategy fedadam
            model avg-$clients-$fraction $clients $fraction --pretrain tm,lm,tlm
        done
    done
    model tm_lm-3-0.35 3 0.35 --pretrain tm,lm # Table 4
    model tlm-3-0.35 3 0.35 --pretrain tlm
    for before in 0.35 0.7 1; do # Table 5, beside the runs above
        for fraction in 0.35 0.7 1; do
            [ $before = $fraction ] && [ $fraction != 1 ] || model avg_$before-3-$fraction 3 $fraction \
                --pretrain tm,lm,tlm --pretrain-client-fraction $before
        done
    done
done
.venv/bin/python docs/results/pilot_table.py "$work" $start
