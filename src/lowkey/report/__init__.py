"""Public room: what a release says about itself, to people: the privacy report and the model card."""

from lowkey.report.build import build_report
from lowkey.report.card import model_card
from lowkey.report.contents import PrivacyReport
from lowkey.report.page import report_page

__all__ = ["PrivacyReport", "build_report", "model_card", "report_page"]
