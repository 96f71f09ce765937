"""ECR answers: an account whose repositories hold every image, but those whose tag begins with `missing`.

Source: botocore's service model `ecr` (2015-09-21).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from actions.sandbox.account import is_there
from actions.sandbox.cloud.jsoncalls import JsonRefusalError

ECR_TARGET = "AmazonEC2ContainerRegistry_V20150921"
_SIZE_BYTES = 21_474_836_480
_MEDIA_TYPE = "application/vnd.docker.distribution.manifest.v2+json"

Asked = Mapping[str, Any]


def ecr_calls(account: str) -> dict[str, Callable[[Asked], dict[str, Any]]]:
    """The calls that are served, by `X-Amz-Target`."""

    def describe_images(asked: Asked) -> dict[str, Any]:
        return {"imageDetails": [_detail(account, asked, image) for image in asked.get("imageIds") or ()]}

    def batch_get_image(asked: Asked) -> dict[str, Any]:
        images, failures = [], []
        for image in asked.get("imageIds") or ():
            try:
                detail = _detail(account, asked, image)
            except JsonRefusalError as refused:
                failures.append({"imageId": image, "failureCode": "ImageNotFound", "failureReason": str(refused)})
                continue
            found = {"imageDigest": detail["imageDigest"], **image}
            images.append(
                {
                    "registryId": account,
                    "repositoryName": asked["repositoryName"],
                    "imageId": found,
                    "imageManifest": "{}",
                    "imageManifestMediaType": _MEDIA_TYPE,
                }
            )
        return {"images": images, "failures": failures}

    def batch_delete_image(asked: Asked) -> dict[str, Any]:
        return {"imageIds": list(asked.get("imageIds") or ()), "failures": []}

    def get_authorization_token(_asked: Asked) -> dict[str, Any]:
        token = base64.b64encode(b"AWS:sandbox").decode()
        endpoint = f"https://{account}.dkr.ecr.us-west-2.amazonaws.com"
        return {"authorizationData": [{"authorizationToken": token, "proxyEndpoint": endpoint}]}

    served = (describe_images, batch_get_image, batch_delete_image, get_authorization_token)
    return {f"{ECR_TARGET}.{_operation(call.__name__)}": call for call in served}


def _detail(account: str, asked: Asked, image: Mapping[str, str]) -> dict[str, Any]:
    repository, tag = str(asked["repositoryName"]), image.get("imageTag", "")
    if not is_there(tag):
        where = f"in the repository with name '{repository}' in the registry with id '{account}'"
        message = f"The image with imageId {{imageDigest:'null', imageTag:'{tag}'}} does not exist within {where}"
        raise JsonRefusalError("ImageNotFoundException", message)
    digest = image.get("imageDigest") or "sha256:" + hashlib.sha256(f"{repository}:{tag}".encode()).hexdigest()
    return {
        "registryId": account,
        "repositoryName": repository,
        "imageDigest": digest,
        "imageTags": [tag] if tag else [],
        "imageSizeInBytes": _SIZE_BYTES,
        "imageManifestMediaType": _MEDIA_TYPE,
    }


def _operation(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
