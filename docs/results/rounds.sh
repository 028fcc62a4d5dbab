#!/bin/sh
# Trains one federation in many ways with its messages kept, and audits what each message gives away. Killed at any time, the
# same command goes on; finished runs keep their audit and lose their messages, which take up to 1.2 GB. With names of runs,
# such as short-adapters, makes these alone.
set -e
pfl() { .venv/bin/pfl-audit "$@"; }
work=${WORK:-build/rounds}
chosen=$*
start=fixtures/vt5-pretrained
data=$work/data
drawn="--members 100 --non-members 20 --red-providers 20 --clients 10 --documents 3 --red-documents 2 --questions 3 --seed 47"

[ -f "$data/recipe.json" ] || pfl data make --out "$data" $drawn

audit() { # name, folder of the run, options
    audited=$1 run=$2
    shift 2
    pfl invert --round "$run" --data "$data" --out "$work/$audited-audit" --fail-on never \
        --store "$work/$audited.store" -q "$@"
}

model() { # name, options
    name=$1
    shift
    case " $chosen " in "  " | *" $name "*) ;; *) return 0 ;; esac
    [ ! -f "$work/$name-audit/report.html" ] || return 0
    pfl train --data "$data" --from $start --out "$work/$name" --rounds 10 --validate-every 100 \
        --keep-updates "$@"
    if [ "$name" = pretraining ]; then
        audit "$name" "$work/$name" --phase pretraining
    else
        audit "$name" "$work/$name"
    fi
    if [ "$name" = one-step ]; then # secure aggregation shows the sum of its clients alone
        for clients in 2 5 10; do
            .venv/bin/python docs/results/rounds_sums.py "$work/$name" "$work/sum-$clients" $clients
            audit "sum-$clients" "$work/sum-$clients"
            rm -r "$work/sum-$clients" "$work/sum-$clients.updates"
        done
    fi
    rm -r "$work/$name.updates"
}

all="--mode fl --clients-per-round 10"
sgd="--optimizer sgd --learning-rate 0.05 --local-steps 1 --batch-size 1"
model one-step $all $sgd
model five-steps $all --optimizer sgd --learning-rate 0.05 --local-steps 5 --batch-size 1
model batch-8 $all --optimizer sgd --learning-rate 0.05 --local-steps 1 --batch-size 8
model adamw-step $all --local-steps 1 --batch-size 1
model adamw-epoch $all --batch-size 16
model pretraining $all $sgd --pretrain tm,lm,tlm --pretrain-rounds 10
model nf4 $all $sgd --codec nf4
model frozen $all $sgd --freeze-embeddings
model adapters $all --lora 6 --learning-rate 3e-3 --local-steps 1 --batch-size 1
model private --mode fl-dp --epsilon 8 --public-providers 100 --clip 0.5 --optimizer sgd --learning-rate 0.5 --batch-size 1 \
    --local-steps 1 --noise-seed 1 --ledger "$work/private.ledger.json"

# Short pages, and a start without dropout, of which adapters give the words away.
data=$work/tables
[ -f "$data/recipe.json" ] || pfl data make --kind tables --out "$data" $drawn
model short-adapters-dropout $all $sgd --lora 6
start=$work/start
mkdir -p "$start"
cp -r fixtures/vt5-pretrained/. "$start"
sed -i 's/"hidden_dropout_prob": 0.1/"hidden_dropout_prob": 0.0/' "$start/config.json"
model short-adapters $all $sgd --lora 6 --lora-dropout 0
.venv/bin/python docs/results/rounds_table.py "$work"
