"""The web console at `/console/`: pages made from what the control routes answer, and forms.

It asks and changes nothing but through the operations of the control routes. Every form carries
the token that only pages of this server know.
"""
