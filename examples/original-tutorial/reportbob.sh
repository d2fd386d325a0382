#!/bin/sh
echo "the report on $(cat "loaded/$dataid")"
