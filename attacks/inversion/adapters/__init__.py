"""Words of updates that hold low-rank adapters in place of the matrices that they adapt."""
