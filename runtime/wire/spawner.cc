#include "runtime/wire/spawner.h"

#include <string>

#include "runtime/wire/plan.h"

namespace atl::wire {

Result<Request> DecodeRequest(std::string_view bytes, std::span<UniqueFd> descriptors) {
  Request request;
  Reader head(bytes);
  request.number = head.U64();
  // A Hello of any protocol is accepted.
  if (head.U8() == Hello::kType && head.ok()) return request;
  if (!DecodeFields(bytes, &request, descriptors)) {
    return Fail(Code::kInvalidArgument, "spawner request: malformed");
  }
  return request;
}

Result<Reply> DecodeReply(std::string_view bytes, std::span<UniqueFd> descriptors) {
  Reply reply;
  Reader head(bytes);
  reply.number = head.U64();
  const bool greets = head.U8() == Greeting::kType;
  const uint32_t protocol = head.U32();
  if (head.ok() && greets && protocol != kSpawnerProtocol) {
    reply.answer = Greeting{.protocol = protocol};
    return reply;
  }
  if (!DecodeFields(bytes, &reply, descriptors)) {
    return Fail(Code::kFailedPrecondition, "the spawner sent a message that protocol " +
                                               std::to_string(kSpawnerProtocol) +
                                               " does not have: upgrade both");
  }
  return reply;
}

}  // namespace atl::wire
