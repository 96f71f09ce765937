"""STS answers: who the caller is."""

from __future__ import annotations

from xml.sax.saxutils import escape

_NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"


def caller_identity(account: str, request_id: str) -> str:
    """`GetCallerIdentity`: everybody is the sandbox's operator."""
    return (
        f'<GetCallerIdentityResponse xmlns="{_NAMESPACE}"><GetCallerIdentityResult>'
        f"<Arn>arn:aws:sts::{account}:assumed-role/eksml-sandbox/operator</Arn>"
        f"<UserId>AROASANDBOX000000000:operator</UserId><Account>{account}</Account></GetCallerIdentityResult>"
        f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></GetCallerIdentityResponse>"
    )


def refusal(action: str, request_id: str) -> str:
    """The error for an action that the sandbox does not serve."""
    message = escape(f"The sandbox does not serve {action or 'this request'}.")
    return (
        f'<ErrorResponse xmlns="{_NAMESPACE}"><Error><Type>Sender</Type><Code>InvalidAction</Code>'
        f"<Message>{message}</Message></Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    )
