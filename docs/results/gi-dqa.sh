#!/bin/sh
# Everything behind docs/results/gi-dqa.md: sh docs/results/gi-dqa.sh [PART...], parts in the order of the page; all by default.
# Killed at any time, the same command goes on.
set -e
work=build/gi
forms=fixtures/templates
taught=$work/taught

row() { # folder (table__row), and options of invert
    name=$1
    shift
    [ -f "$work/$name/results.json" ] || .venv/bin/pfl-audit invert --template $forms --store $work/store.sqlite \
        --out "$work/$name" --fail-on never -q "$@" > /dev/null || [ $? -eq 3 ]
}

main() { # the paper's Table 1
    for method in lbfgs gi-dqa idlg dlg april inverting-gradients; do
        row "1-methods__$method" --documents 12 --iterations 800 --method $method
    done
    row "1-methods__gi-dqa, 2000 iterations" --documents 12 --iterations 2000 --method gi-dqa
}
analytic() { # the closed form of LayoutLMv3, at a small size; base size: python -m tests.bench.inversion FCC_ADBUY
    [ -d $work/lmv3 ] || .venv/bin/python docs/results/small_layoutlmv3.py $work/lmv3
    row "6-analytic__small LayoutLMv3" --model $work/lmv3 --documents 20
}
text() { # question and answer
    row "0-text__1 all forms" --documents 48 --method text
}
layers() {
    for layers in pre-fusion post-fusion; do
        row "7-layers__$layers" --documents 2 --iterations 300 --method lbfgs --layers $layers
    done
}
priors() { # Table 2
    row "2-priors__1 gradient alone" --documents 2 --iterations 500 --method gi-dqa --prior-txt 0 --prior-gau 0 --prior-tv 0
    row "2-priors__2 + total variation" --documents 2 --iterations 500 --method gi-dqa --prior-txt 0 --prior-gau 0
    row "2-priors__3 + text" --documents 2 --iterations 500 --method gi-dqa --prior-gau 0
    row "2-priors__4 + Gaussian" --documents 2 --iterations 500 --method gi-dqa
}
known() { # Table 3
    for known in none question answer both characters; do
        row "3-known__$known" --documents 2 --iterations 300 --method lbfgs --known $known
    done
}
batch() { # Table 4
    for size in 1 2 4; do
        row "4-batch__$size" --documents 2 --iterations 300 --method lbfgs --known both --batch-size $size
    done
}
schedulers() { # Table 5
    for scheduler in constant delayed decay; do
        row "5-schedulers__$scheduler" --documents 2 --iterations 500 --method gi-dqa --scheduler $scheduler
    done
}
noise() { # Table 8
    for sigma in 1e-9 1e-8 1e-7 1e-6 1e-5 1e-4 1e-3 1e-2; do
        row "8-noise__$sigma" --documents 2 --iterations 300 --method lbfgs --method text --noise $sigma
    done
}
stage() { # Figure 6
    for step in 0 1 5 10 30; do
        row "9-stage__$step" --documents 2 --iterations 300 --method lbfgs --stage $step
    done
}
defence() { # Table 7: the perturbed templates, and what they do
    for method in gi-dqa lbfgs; do
        [ -f $work/defence-$method/defence.json ] || .venv/bin/pfl-audit defend --template $forms/form-02/template.png \
            --method $method --documents 2 --iterations 500 --strategy pgd --strategy random --out $work/defence-$method
    done
}
lessons() { # the same Donut after lessons in reading
    [ -d $taught-2000 ] || .venv/bin/python -m pfl_audit.fixtures.reading $taught
    for step in 500 1000 2000; do
        row "9-stage__taught $step" --model $taught-$step --documents 2 --iterations 300 --method lbfgs
    done
    row "9-stage__taught 2000, GI-DQA" --model $taught-2000 --documents 2 --iterations 500 --method gi-dqa
}
paper() { # the paper's own number of iterations, on three documents; DEVICE (cuda) is where they are computed
    for form in 01 02 03; do
        page="--template $forms/form-$form/template.png --documents 1 --method gi-dqa --device ${DEVICE:-cpu}"
        row "10-paper__from the form, form $form" $page --iterations 5000
        row "10-paper__as published, form $form" $page --as-published
    done
}

for part in ${*:-text analytic main priors known batch schedulers noise stage lessons layers defence paper}; do
    $part
done
.venv/bin/python docs/results/gi_dqa_table.py $work
