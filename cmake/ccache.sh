#!/bin/sh
# Compiler launcher: ccache whose hits do not depend on where the checkout lies.
here=$(cd "$(dirname "$0")/.." && pwd)
CCACHE_BASEDIR="$here" CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=time_macros,include_file_mtime,include_file_ctime exec ccache "$@"
