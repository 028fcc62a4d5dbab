#!/bin/sh
# Trains and attacks everything behind docs/results/cdmi-fcc-adbuy.md: sh docs/results/cdmi.sh FCC_ADBUY
# Killed at any time, the same command goes on.
set -e
pfl() { .venv/bin/pfl-audit "$@"; }
work=${WORK:-build/cdmi}
[ -f $work/forms/forms.jsonl ] || .venv/bin/python docs/results/cdmi_forms.py "$1" $work/forms

model() { # name, and options of train
    name=$1
    shift
    [ -f "$work/$name/training.json" ] || pfl train --data $work/forms --out "$work/$name" --max-tokens 192 -q "$@"
}

attack() { # name of the audit, target, public model, and options of reconstruct
    audit=$1 attacked=$2 known=$3
    shift 3
    [ -f "$work/audits/$audit/results.json" ] || pfl reconstruct --model "$work/$attacked" --public "$work/$known" \
        --forms $work/forms --label advertiser --label contract_num --label flight_from --label flight_to \
        --label gross_amount --out "$work/audits/$audit" --fail-on never -q "$@" || [ $? -eq 3 ]
}

for backbone in layoutlm bros; do
    public=public-$backbone
    model $public --task mlm --part public --backbone $backbone --size tiny --vocabulary 2000 --epochs 40 \
        --learning-rate 2e-3
    for task in mlm ee-bio ee-spade el; do
        target=$task-$backbone
        epochs=30 # half of the epochs of mlm, as in the paper
        [ $task = mlm ] && epochs=60
        model $target --task $task --part private --backbone $backbone --from $work/$public/best-loss --epochs $epochs \
            --learning-rate 2e-3
        if [ $task = mlm ]; then
            attack $target $target/best-precision $public/best-loss --fields 400
        else # a pass of the target for every candidate: fewer of them, fewer fields
            attack $target $target/best-precision $public/best-loss --candidates 32 --fields 60
        fi
    done
done
.venv/bin/python docs/results/cdmi_table.py $work
