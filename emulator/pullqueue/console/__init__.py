"""The web console at `/console/`: pages made from the results of the control routes, and forms.

It reads and changes everything through the operations of the control routes. Every form contains
the token that only pages of this server know.
"""
