"""Who asks, who publishes, and the small questions that clients put to a Hub."""

from __future__ import annotations

import yaml
from starlette.responses import JSONResponse, Response

from kernelworks_server.errors import SignInRequired
from kernelworks_server.hub.endpoint import Call, Endpoint, usual

__all__ = ["ENDPOINTS"]

_LONGEST_FRONT_MATTER = 16 << 10  # characters; anybody may ask, and each takes its time
_FENCE = "---"


def _whoami(call: Call) -> Response:
    actor = call.actor
    if actor.name is None:
        raise SignInRequired("show a token to be told whose it is")
    account = call.services.people.account(actor.name)
    orgs = [
        {"type": "org", "name": name, "fullname": name, "roleInOrg": role, "isEnterprise": False, "avatarUrl": ""}
        for name, role in actor.roles.items()
    ]
    return JSONResponse(
        {
            "type": "user",
            "id": account.name,
            "name": account.name,
            "fullname": account.fullname,
            "isPro": False,
            "avatarUrl": "",
            "orgs": orgs,
            "auth": {"type": "access_token", "accessToken": {"displayName": account.name, "role": actor.scope}},
        }
    )


def _overview(call: Call) -> Response:
    org = call.services.people.organisation(call.fields["org"])
    return JSONResponse(
        {
            "name": org.name,
            "fullname": org.fullname,
            "avatarUrl": "",
            "isVerified": False,
            "numUsers": len(call.services.people.members(org.name)),
            "trustedKernelPublisher": org.trusted,
        }
    )


def _validate_yaml(call: Call) -> Response:
    fault = _front_matter_fault(call.json().get("content").value)
    errors = [] if fault is None else [{"message": fault}]
    return JSONResponse({"errors": errors, "warnings": []}, 400 if errors else 200)


def _front_matter_fault(content: object) -> str | None:
    """What is wrong with the YAML at the head of a README; None where nothing is, or there is none."""
    if not isinstance(content, str):
        return "`content` is not text"
    first, *lines = content.splitlines() or [""]
    if first.rstrip() != _FENCE:
        return None
    end = next((number for number, line in enumerate(lines) if line.rstrip() == _FENCE), None)
    if end is None:
        return "the metadata between two lines `---` has no end"
    text = "\n".join(lines[:end])
    if len(text) > _LONGEST_FRONT_MATTER:
        return f"the metadata is longer than {_LONGEST_FRONT_MATTER} characters"
    try:
        metadata = yaml.compose(text, Loader=yaml.SafeLoader)  # nodes only: merge keys can grow without bound
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return f"the metadata is not YAML: {str(error) or type(error).__name__}"
    return (
        None if metadata is None or isinstance(metadata, yaml.MappingNode) else "the metadata maps no names to values"
    )


def _harnesses(_: Call) -> Response:
    return JSONResponse({"standardEnvVars": [], "harnesses": {}})


ENDPOINTS = (
    Endpoint("GET", "/api/whoami-v2", _whoami),
    Endpoint("GET", "/api/organizations/{org}/overview", _overview),
    Endpoint("POST", "/api/validate-yaml", _validate_yaml, usual),
    Endpoint("GET", "/api/agent-harnesses", _harnesses),
)
