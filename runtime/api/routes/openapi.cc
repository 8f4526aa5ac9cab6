#include "runtime/api/routes/openapi.h"

namespace atl::api {
namespace {

// The build makes openapi.inc from openapi.json.
constexpr char kDocument[] =
#include "runtime/api/openapi.inc"
    ;

}  // namespace

std::string_view OpenApiDocument() {
  return kDocument;
}

}  // namespace atl::api
