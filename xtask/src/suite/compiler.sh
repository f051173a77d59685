#!/bin/sh
# Compiles a package of the workspace with Clippy's compiler (CLIPPY_DRIVER), and notes the arguments and the
# environment in the folder LEVADA_COMPILATIONS. rustdoc reads the same artifacts with them.
# Cargo calls: compiler.sh RUSTC ARGUMENTS.
name='' kind='' previous=''
for word do
    case $previous in --crate-name) name=$word ;; esac
    case $word in --test) kind=.test ;; esac
    previous=$word
done
case $name in
'' | ___ | build_script_*) ;;
*)
    note=$LEVADA_COMPILATIONS/$name$kind
    mkdir -p "$LEVADA_COMPILATIONS" || exit 1
    env -0 >"$note.environment" && printf '%s\0' "$@" >"$note.arguments" || exit 1
    ;;
esac
exec "$CLIPPY_DRIVER" "$@"
