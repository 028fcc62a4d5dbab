#!/bin/sh
# Attacks on models of 1,000 companies, with and without privacy: membership of companies and of documents, and document canaries of
# models of their own. Killed at any time, the same command goes on.
set -e
work=build/private-learning
start=fixtures/vt5-pretrained
corpus=$work/freight-1000
nonce="private learning"
COMPANIES=1000 SEEDS=0 EPSILONS=8 MODES="central-dp whole" sh docs/results/private_learning_curve.sh

[ -f $work/one-page/untrained/corpus.jsonl ] || .venv/bin/python docs/results/one_page_each.py $corpus $work/one-page
for pair in private=central-dp-1000-of-4-8-0 whole=whole-1000-0; do
    name=${pair%%=*}
    .venv/bin/pfl-audit mia --model $work/${pair#*=} --pretrained $start --red $corpus --classes-random units \
        --out $work/mia-$name || [ $? = 3 ]
    documents="--model $work/${pair#*=} --pretrained $start --members $work/one-page/trained --classes-random units --fail-on never \
        --non-members $work/one-page/untrained --unit document --store $work/one-page.sqlite"
    .venv/bin/pfl-audit audit $documents --check membership.likelihood-ratio --check membership.azk --set 'membership.s=[0]' \
        --out $work/pages-$name
    .venv/bin/pfl-audit audit $documents --check docmia.document --check docmia.distance --check docmia.steps --check docmia.fall \
        --check docmia.loss --check docmia.clusters --out $work/docmia-$name
done

with_canaries() { # name, options
    out=$work/$1-canaries
    shift
    [ -f "$out/model.safetensors" ] || .venv/bin/pfl-audit train --data $corpus --from $start --out "$out" --half --seed 0 \
        --audit-canaries 400 --canary-nonce "$nonce" "$@"
    .venv/bin/pfl-audit verify "$out" --from $start --nonce "$nonce"
}

with_canaries private --mode central-dp --epsilon 8 --ledger $work/private-canaries.ledger.json --optimizer sgd \
    --learning-rate 0.9 --batch-size 4 --local-steps 1 --clip 0.05 --strategy fedadam --server-rate 0.4 --provider-rate 0.2 \
    --public-providers 1000 --rounds 20 --lora 4 --lora-parts up --validate-every 10
with_canaries whole --mode central --steps 1600 --batch-size 24 --learning-rate 4e-4 --validate-every 400
.venv/bin/python docs/results/private_learning_table.py $corpus $start $work/private-canaries $work/whole-canaries
