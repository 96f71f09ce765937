module realnode/volcano-apis

go 1.24.0

require volcano.sh/apis v1.14.0
