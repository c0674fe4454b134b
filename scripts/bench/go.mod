module kvd/scripts/bench

go 1.26.0
