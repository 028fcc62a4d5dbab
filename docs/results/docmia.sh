#!/bin/sh
# Draws, trains and audits everything behind docs/results/docmia.md. Killed at any time, the same command goes on.
# SEED chooses the companies, the division of their documents and the order of training; 18 saw the choice of settings.
set -e
export OMP_NUM_THREADS=1
pfl() { .venv/bin/pfl-audit "$@"; }
seed=${SEED:-19}
work=build/docmia-$seed
start=fixtures/vt5-pretrained

[ -d $work/drawn ] || pfl data make --out $work/drawn --members 100 --non-members 4 --red-providers 2 --clients 2 \
    --documents 8 --seed $seed
[ -f $work/other/corpus.jsonl ] || .venv/bin/python docs/results/divide_documents.py $work/drawn $work $seed
for side in trained other; do
    [ -f $work/model-$side/model.safetensors ] || pfl train --from $start --data $work/$side --out $work/model-$side \
        --steps 480 --batch-size 16 --learning-rate 5e-4 --validate-every 500 --seed $seed
done

audit() {
    out=$1
    shift
    [ -f "$work/$out/results.json" ] || pfl audit --model $work/model-trained --members $work/trained --store $work/responses.sqlite \
        --non-members $work/untrained --unit document --classes-random units --out "$work/$out" --seed $seed --fail-on never \
        --control $work/model-other "$@"
}

audit white --check docmia.document --check docmia.distance --check docmia.steps --check docmia.fall \
    --check docmia.loss --check docmia.clusters
audit membership --pretrained $start --check membership.likelihood-ratio --check membership.azk --set 'membership.s=[0]'
audit proxy-audit --pretrained $start --check docmia.proxy
.venv/bin/python docs/results/docmia_table.py $work/white $work/membership $work/proxy-audit
