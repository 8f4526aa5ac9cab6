// The body of PATCH /sandboxes/{id}/metadata: a JSON merge patch (RFC 7396) of labels.
#pragma once

#include <string>
#include <string_view>

#include "runtime/api/gate/api_error.h"
#include "runtime/sandbox/live/changes.h"

namespace atl::api {

// Names and values that are set must be labels (labels.h). null removes any name, valid or not.
Parsed<sandbox::Changes::MetadataPatch> ParseMetadataPatch(const std::string& body,
                                                           std::string_view content_type);

}  // namespace atl::api
