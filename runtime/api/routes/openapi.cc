#include "runtime/api/routes/openapi.h"

namespace atl::api {
namespace {

// Made from openapi.json by the build.
constexpr char kDocument[] =
#include "runtime/api/openapi.inc"
    ;

}  // namespace

std::string_view OpenApiDocument() {
  return kDocument;
}

}  // namespace atl::api
