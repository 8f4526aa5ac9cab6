#include "runtime/api/gate/error_map.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <nlohmann/json.hpp>

namespace atl::api {
namespace {

std::string Map(Code code, Doing doing, int number = 0) {
  const ApiError mapped = MapError(Error(code, "why", number), doing);
  EXPECT_EQ(mapped.message, "why");
  return std::to_string(mapped.status) + " " + mapped.code;
}

TEST(ErrorMap, EveryCodeHasAStatusEverywhere) {
  constexpr Code kCodes[] = {Code::kInvalidArgument,   Code::kNotFound,
                             Code::kAlreadyExists,     Code::kFailedPrecondition,
                             Code::kResourceExhausted, Code::kPermissionDenied,
                             Code::kDeadlineExceeded,  Code::kUnavailable,
                             Code::kUnimplemented,     Code::kInternal};
  for (Code code : kCodes) {
    for (int doing = 0; doing < kDoings; ++doing) {
      const ApiError mapped = MapError(Error(code, "m"), static_cast<Doing>(doing));
      EXPECT_GE(mapped.status, 400);
      EXPECT_LE(mapped.status, 599);
      EXPECT_FALSE(mapped.code.empty());
    }
  }
}

TEST(ErrorMap, UpstreamsCodes) {
  EXPECT_EQ(Map(Code::kInvalidArgument, Doing::kCreate), "400 SANDBOX::INVALID_PARAMETER");
  EXPECT_EQ(Map(Code::kNotFound, Doing::kCreate), "404 DOCKER::SANDBOX_IMAGE_NOT_FOUND");
  EXPECT_EQ(Map(Code::kInternal, Doing::kCreate), "500 DOCKER::SANDBOX_START_FAILED");
  EXPECT_EQ(Map(Code::kUnimplemented, Doing::kCreate), "501 SANDBOX::API_NOT_SUPPORTED");
  EXPECT_EQ(Map(Code::kNotFound, Doing::kDelete), "404 DOCKER::SANDBOX_NOT_FOUND");
  EXPECT_EQ(Map(Code::kInternal, Doing::kDelete), "500 DOCKER::SANDBOX_DELETE_FAILED");
  EXPECT_EQ(Map(Code::kInvalidArgument, Doing::kRenew), "400 DOCKER::INVALID_EXPIRATION");
  EXPECT_EQ(Map(Code::kFailedPrecondition, Doing::kRenew), "409 DOCKER::INVALID_EXPIRATION");
  EXPECT_EQ(Map(Code::kUnavailable, Doing::kProxy), "502 BACKEND_CONNECTION_FAILED");
}

TEST(ErrorMap, OnlyWhatPassesIs503) {
  EXPECT_EQ(Map(Code::kUnavailable, Doing::kDelete), "503 GENERAL::UNAVAILABLE");
  for (const int lacking : {ENOSYS, EOPNOTSUPP}) {
    EXPECT_EQ(Map(Code::kUnavailable, Doing::kDelete, lacking),
              "500 DOCKER::SANDBOX_DELETE_FAILED");
    EXPECT_EQ(Map(Code::kUnavailable, Doing::kProxy, lacking), "502 BACKEND_CONNECTION_FAILED");
  }
}

TEST(ErrorMap, NoRoomHasManyFaces) {
  EXPECT_EQ(Map(Code::kResourceExhausted, Doing::kCreate), "429 SANDBOX::TOO_MANY");
  EXPECT_EQ(Map(Code::kResourceExhausted, Doing::kCreate, ENOSPC), "507 GENERAL::STORAGE_FULL");
  EXPECT_EQ(Map(Code::kResourceExhausted, Doing::kCreate, EMFILE), "503 SANDBOX::OUT_OF_RESOURCES");
  EXPECT_EQ(Map(Code::kResourceExhausted, Doing::kReadBody), "413 GENERAL::TOO_LARGE");
  EXPECT_EQ(Map(Code::kResourceExhausted, Doing::kImportImage, EMFILE),
            "503 GENERAL::OUT_OF_RESOURCES");
  EXPECT_EQ(Map(Code::kResourceExhausted, Doing::kImportImage, EDQUOT),
            "507 GENERAL::STORAGE_FULL");
}

TEST(ErrorMap, TheResponseSaysWhenToComeAgain) {
  const http::Response response =
      ErrorResponse(MapError(Error(Code::kResourceExhausted, "full"), Doing::kCreate));
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.headers.Get("Retry-After"), "1");
  const auto body = nlohmann::json::parse(response.body);
  EXPECT_EQ(body.size(), 2U);
  EXPECT_EQ(body.at("message"), "full");
}

}  // namespace
}  // namespace atl::api
