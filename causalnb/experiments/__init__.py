"""A module per source: which arms, seeds and settings make which table or figure."""
