#!/bin/sh
set -eu
mkdir -p "$(dirname "$months_location")"
echo "month $dataid of: $sales_dataid"
cat $sales_location | awk -F, '{ sum[$1] += $2 } END { for (name in sum) print name "," sum[name] }' | sort >"$months_location"
