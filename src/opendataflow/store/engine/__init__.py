"""Apply the rules of the protocol inside one transaction: claims, run ends, candidates, folding, freshness, steering."""
