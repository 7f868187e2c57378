"""Unpack every wheel of a folder into another, without installing. usage: unpack_wheels.py FOLDER TARGET"""
import pathlib
import sys
import zipfile

folder, target = map(pathlib.Path, sys.argv[1:])
for path in folder.glob("*.whl"):
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(target)
