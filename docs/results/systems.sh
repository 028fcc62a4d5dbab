#!/bin/sh
# Trains FL-PROVIDER-DP, FL-GROUP-DP and DP-CLGECL at equal valid epsilon and prints their table. Killed at any time, the
# same command goes on. SYSTEMS, SEEDS, EPSILONS and ROUNDS make it smaller; QUESTIONS of a company for its step, SERVER_RATE (of
# FedAdam) and CORPUS (freight-4000 is that of private_learning_curve.sh) change it. The corpus is that of private_learning.sh: 4,000
# companies in 10 clients, so that all three systems draw 100 companies to expect in a round (q 0.025, the competition's), and
# clgecl_all 1,200 of all clients.
# The dual variable of DP-CLGECL is in units of a message (line 17 of algorithm 2), so that its server takes the plain
# mean; clip and rate are 80 times as large there, which is about what FedAdam multiplies a message by over the rounds.
# FL-GROUP-DP is trained both ways. By the plain mean of two clients nothing is learnt at the first epsilon of the list, so that
# smaller ones are not trained.
set -e
pfl() { .venv/bin/pfl-audit "$@"; }
work=${WORK:-build/systems}
start=fixtures/vt5-pretrained
corpus=${CORPUS:-freight}
data=build/private-learning/$corpus
shared="--mode fl-dp --lora 4 --lora-parts up --rounds ${ROUNDS:-14} --batch-size ${QUESTIONS:-1} --local-steps 1 --optimizer sgd
    --validate-every ${ROUNDS:-14}"
adam="--learning-rate 0.9 --clip 0.05 --strategy fedadam --server-rate ${SERVER_RATE:-0.4}"
mean="--learning-rate 72 --clip 4 --strategy fedavg"
drawn="--sampling clients --client-rate 0.2 --provider-rate 0.125 --public-providers 4000"
groups="--sampling fixed-size --clients-per-round 2 --providers-per-round 50 --minimum-providers ${MINIMUM:-400}"
everybody="--sampling providers --provider-rate 0.3 --public-providers 4000"

model() {
    name=$1
    shift
    case " ${SYSTEMS:-${name%%-*}} " in *" ${name%%-*} "*) ;; *) return 0 ;; esac
    [ -f "$work/$name/model.safetensors" ] || pfl train --data "$data" --from $start --out "$work/$name" \
        --ledger "$work/$name.ledger.json" --half $shared "$@"
}

mkdir -p "$work"
[ "$corpus" = freight ] && drawing=42 || drawing=8200
sh docs/results/private_corpora.sh "$corpus" 4000 $drawing
EPSILONS=${EPSILONS:-8 4 1}
for seed in ${SEEDS:-0 1 2}; do
    for epsilon in $EPSILONS; do
        model provider-eps$epsilon-$seed $drawn $adam --epsilon $epsilon --seed $seed
        model group-eps$epsilon-$seed $groups $adam --epsilon $epsilon --seed $seed
        model clgecl_all-eps$epsilon-$seed $everybody --learning-rate 36 --clip 4 --strategy fedavg --client-memory clgecl-zero \
            --epsilon $epsilon --seed $seed
        [ "$epsilon" = "${EPSILONS%% *}" ] || continue
        model group_mean-eps$epsilon-$seed $groups $mean --epsilon $epsilon --seed $seed
        model clgecl-eps$epsilon-$seed $groups $mean --client-memory clgecl --epsilon $epsilon --seed $seed
        model clgecl_zero-eps$epsilon-$seed $groups $mean --client-memory clgecl-zero --epsilon $epsilon --seed $seed
    done
done
.venv/bin/python docs/results/systems_table.py "$work" "$data" $start
