// Answers whose body is written in pieces. Internal to this folder.
#pragma once

#include <memory>

#include "runtime/http/server.h"

namespace atl::http {

class Connection;

std::shared_ptr<ResponseStream> StartResponseStream(const std::shared_ptr<Connection>& connection,
                                                    Response head);

}  // namespace atl::http
