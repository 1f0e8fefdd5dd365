"""``python -m pacore`` is the ``pacore`` command."""

from pacore.cli.app import main

if __name__ == "__main__":
    main()
