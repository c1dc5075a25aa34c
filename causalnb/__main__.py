"""`python -m causalnb` is `causalnb`."""

from causalnb.cli import main

if __name__ == "__main__":
    main()
