"""Write the requirements of a wheel, but with another torch.

usage: wheel_requirements.py FOLDER TORCH OUT     (FOLDER holds one wheel; TORCH like torch==2.13.0)
"""
import email
import pathlib
import sys
import zipfile

folder, torch, out = sys.argv[1:]
with zipfile.ZipFile(next(pathlib.Path(folder).glob("*.whl"))) as wheel:
    metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    asked = email.message_from_bytes(wheel.read(metadata)).get_all("Requires-Dist") or []
kept = [line for line in asked if "extra ==" not in line and not line.startswith("torch")]
pathlib.Path(out).write_text("\n".join([*kept, torch, "torchvision", "torchaudio"]) + "\n")
