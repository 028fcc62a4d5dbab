#!/bin/sh
# Private models by the number of companies. Killed at any time, the same command goes on. SEEDS, COMPANIES (all models are asked
# about pages of the corpus of the last one), EPSILONS, QUESTIONS (of a company for its step), RATE (share of companies to expect in
# a round) and MODES choose the runs: fl-dp is the federation of 10 clients that all take part in every round, each with its share of
# the noise; central trains the same adapters without privacy, and whole all weights without privacy, which with 1,000 companies is
# eight passes.
set -e
work=build/private-learning
start=fixtures/vt5-pretrained
rate=${RATE:-0.2}
models=

model() { # name, corpus, options
    out=$work/$1 data=$work/$2
    shift 2
    models="$models $out"
    [ -f "$out/model.safetensors" ] || .venv/bin/pfl-audit train --data "$data" --from $start --out "$out" \
        --half "$@"
}

for count in ${COMPANIES:-120 500 1000 4000}; do
    corpus=freight-$count
    sh docs/results/private_corpora.sh $corpus "$count" $((4200 + count))
    for seed in ${SEEDS:-0 1 2}; do
        for mode in ${MODES:-central-dp fl-dp}; do
            case $mode in
            central) model $mode-$count-$seed $corpus --mode central --steps 600 --batch-size 24 --learning-rate 3e-3 \
                --optimizer adam --validate-every 300 --lora 4 --lora-parts up --seed "$seed" ;;
            whole) model $mode-$count-$seed $corpus --mode central --steps 2400 --batch-size 24 --learning-rate 4e-4 \
                --validate-every 400 --seed "$seed" ;;
            *) for questions in ${QUESTIONS:-4}; do
                for epsilon in ${EPSILONS:-8}; do
                    name=$mode-$count${RATE:+-at-$RATE}-of-$questions-$epsilon-$seed
                    model $name $corpus --mode $mode --epsilon "$epsilon" --seed "$seed" --ledger $work/$name.ledger.json \
                        --optimizer sgd --learning-rate 0.9 --batch-size "$questions" --local-steps 1 --clip 0.05 \
                        --strategy fedadam --server-rate 0.4 --provider-rate "$rate" --public-providers "$count" --rounds 20 \
                        --lora 4 --lora-parts up --validate-every 10
                done
            done ;;
            esac
        done
    done
done
.venv/bin/python docs/results/private_learning_table.py "$work/freight-$count" $start $models
