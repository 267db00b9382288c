"""`sundae push DIR HUB-ID`."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from sundae.errors import CapabilityError, DataError


@dataclass(frozen=True)
class Command:
    """Upload a model folder to a hub, with the account that `huggingface_hub` is logged in with."""

    model: Annotated[Positional[Path], arg(metavar="DIR")]
    """The model folder."""
    name: Annotated[Positional[str], arg(metavar="HUB-ID")]
    """Where to, as OWNER/NAME."""
    public: bool = False
    """Make a new repository public; it is private otherwise."""

    def run(self) -> None:
        """Check the folder by loading it, then upload its four files and print the address."""
        try:
            from huggingface_hub import HfApi
        except ImportError:
            raise CapabilityError("huggingface_hub is not installed", hint="pip install 'sundae[hub]'") from None
        from sundae.folder import FILES
        from sundae.model import load_model

        if not self.model.is_dir():
            raise DataError(f"there is no folder {self.model}")
        load_model(self.model)
        hub = HfApi()
        try:
            hub.create_repo(self.name, private=not self.public, exist_ok=True)
            done = hub.upload_folder(repo_id=self.name, folder_path=self.model, allow_patterns=list(FILES))
        except Exception as error:  # the hub's client raises many kinds, network errors among them
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise DataError(f"cannot push to {self.name!r}", why=reason[0]) from None
        sys.stdout.write(f"{done}\n")
